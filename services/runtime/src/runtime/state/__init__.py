"""Keep what outlives a launch, and what Spark keeps of a query: all of it below the checkpoint root.

lease       which generation may write
checkpoint  which checkpoint a launch goes on with, and how far the one before had come
store       where both are: local directories, or a Hadoop file system
openstate   how old the oldest record of an open window is, out of Spark's state
groups      how large open groups have grown, out of the same
"""
