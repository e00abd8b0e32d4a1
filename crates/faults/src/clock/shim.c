/* Answers questions for the wall clock with the real time plus an offset.
 *
 * The offset is an int64 of nanoseconds in a file that stays mapped, so that whoever writes the file moves the clock.
 * The real time comes from the kernel by a plain system call: asking the C library would end up here again, and looking up
 * its function may allocate, which some allocators answer by asking for the time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

/* NULL until the constructor has run. What asks for the time before that gets the real one. */
static const int64_t *offset;

/* A server that runs with the real time although a test asked for another one would make the test worthless. */
static void give_up(const char *why)
{
    if (write(2, why, strlen(why)) < 0)
        _exit(126);
    _exit(127);
}

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("LEASEHOLD_CLOCK_OFFSET");
    if (path == NULL)
        give_up("clock for tests: LEASEHOLD_CLOCK_OFFSET is not set\n");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        give_up("clock for tests: cannot open the file with the offset\n");
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        give_up("clock for tests: cannot map the file with the offset\n");
    close(file);
    offset = mapped;
}

static int is_wall_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || offset == NULL || !is_wall_clock(clock))
        return failed;
    int64_t by = __atomic_load_n(offset, __ATOMIC_RELAXED);
    int64_t nanos = now->tv_nsec + by % SECOND;
    now->tv_sec += by / SECOND;
    if (nanos < 0) {
        nanos += SECOND;
        now->tv_sec -= 1;
    } else if (nanos >= SECOND) {
        nanos -= SECOND;
        now->tv_sec += 1;
    }
    now->tv_nsec = nanos;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also)
{
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    if (also != NULL)
        *also = exact.tv_sec;
    return exact.tv_sec;
}
