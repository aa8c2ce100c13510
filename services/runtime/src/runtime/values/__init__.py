"""Building blocks that several of our functions share, plain and over Arrow arrays.

registration             how functions come to the SQL session of a launch
invalid_input            values that a function could not use, counted
messages                 fields of encoded messages
series                   series of one value a minute
zones, periods           time zones, and where their months, weeks and days begin
jsonpath, jsonfilter     paths and filters over JSON documents
featurerows              the rows that feature functions give
"""
