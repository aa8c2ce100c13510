"""One launch of one dagger, in the driver.

main       from the command line to the exit code
spare      waits for a launch, after a `warmup_run`
driver     the life of a launch; `job` is what it computes, `guard` the second check of its SQL
batch      what happens to each micro-batch; `delivery` is its half in the workers
listener   what Spark tells of batches; `progress` adds it up, `heartbeat` tells the platform
symptoms   what a driver finds wrong with its own work
driverlog  keeps driver.log short
"""
