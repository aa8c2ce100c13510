"""Run one launch of one dagger, in the driver.

main       runs a launch from its command line to its exit code
spare      waits for a launch, after a `warmup_run`
driver     starts and watches a launch; `job` assembles what it computes, `guard` checks its SQL a second time
batch      processes each micro-batch; `writing` writes it, `delivery` is the half in the workers
listener   takes Spark's events of batches; `progress` folds them, `heartbeat` sends them
symptoms   finds late rows, and input without output
shadow     runs beside a driver until it takes over; `boundary` is where that driver ends
driverlog  truncates driver.log
"""
