"""Tools that the embedded stack runs on: Kafka's jars, influxd and a Java, installed once into one folder.

Every tool is built in `NAME.part` beside its place and renamed when it is complete, so a folder under its
final name is whole; what an interrupted build left behind is used again by the next.
"""
