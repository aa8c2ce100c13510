/* A wall clock that a test may move, for the processes that this library is loaded into first.
 *
 * The file OFFSET_FILE, a name it is compiled with, holds one int64: nanoseconds by which the wall clock of all of them
 * is ahead of the host's. Clocks that count from the host's start are left alone, as a step of the host's clock leaves
 * them. Waits until a time of the wall clock look again ten times a second, so they end when the clock says so, as
 * with the kernel's. (libfaketime waits by the host's clock, and Python's sleeps never end with it.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SLICE (SECOND / 10)
#define WALL_CLOCK_S 1000000000 /* a deadline beyond this is one of the wall clock: hosts run for less than 30 years */

static volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
    int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

static int64_t ahead(void) { return offset ? *offset : 0; }

static int64_t nanoseconds(const struct timespec *time) { return time->tv_sec * SECOND + time->tv_nsec; }

static struct timespec timespec_of(int64_t time) {
    struct timespec result = {time / SECOND, time % SECOND};
    return result;
}

static int64_t host_time(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return nanoseconds(&now);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, id, time);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        *time = timespec_of(nanoseconds(time) + ahead());
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t now = host_time() + ahead();
    time->tv_sec = now / SECOND;
    time->tv_usec = now % SECOND / 1000;
    return 0;
}

time_t time(time_t *result) {
    time_t now = (host_time() + ahead()) / SECOND;
    if (result)
        *result = now;
    return now;
}

int timespec_get(struct timespec *time, int base) { return clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0; }

/* Wait in slices of the host's time until the moved clock is there. `WAIT` waits until `slice`, by the host's clock;
 * `TIMED_OUT` is whether that was in vain. */
#define WAIT_BY_THE_MOVED_CLOCK(DEADLINE, WAIT, TIMED_OUT)                                                             \
    for (;;) {                                                                                                         \
        int64_t now = host_time(), left = nanoseconds(DEADLINE) - now - ahead();                                       \
        struct timespec slice = timespec_of(now + (left < SLICE ? left : SLICE));                                      \
        int result = WAIT;                                                                                             \
        if (!(TIMED_OUT) || host_time() + ahead() >= nanoseconds(DEADLINE))                                            \
            return result;                                                                                             \
    }

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!wait)
        wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!offset || deadline->tv_sec < WALL_CLOCK_S)
        return wait(cond, mutex, deadline);
    WAIT_BY_THE_MOVED_CLOCK(deadline, wait(cond, mutex, &slice), result == ETIMEDOUT)
}

/* glibc's own does not come by the one above. */
int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    int result = pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, deadline);
    return result == 0 ? thrd_success : result == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict deadline) {
    static int (*wait)(sem_t *, const struct timespec *);
    if (!wait)
        wait = dlsym(RTLD_NEXT, "sem_timedwait");
    if (!offset)
        return wait(sem, deadline);
    WAIT_BY_THE_MOVED_CLOCK(deadline, wait(sem, &slice), result != 0 && errno == ETIMEDOUT)
}
