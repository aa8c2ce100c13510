"""Run launches of daggers, in the driver.

main       runs a process from its command line to its exit code
process    runs the members of the process, which are launches; `member` runs one, to its own exit code
spare      waits for the first one, after a `warmup_run`
driver     starts and watches a launch; `job` assembles what it computes, `guard` checks its SQL a second time
batch      processes each micro-batch; `writing` writes it, `delivery` is the half in the workers
listener   takes Spark's events of batches; `progress` folds them, `heartbeat` sends them
symptoms   finds late rows, and input without output
shadow     runs beside a driver until it takes over; `boundary` is where that driver ends
driverlog  truncates driver.log
usage_share  divides what the process uses among its members
"""
