"""The functions of the dialect: names, signatures, result types, and how each is told to Spark.

A function that is not registered here does not exist; a name that Spark knows does not help it. One module
for each kind; `registry` finds them; `own` holds the signatures of our own functions, whose code is in
runtime/functions/.
"""
