/* Moves the wall clock of a process, and of its children, by what a file says: preload this.
 *
 * $WINDLASS_CLOCK names a file whose first 8 bytes are a number of seconds. It is mapped into
 * memory, so all processes see a change at the same instant. Other clocks are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_clock(void) {
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *name = getenv("WINDLASS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *told) {
    if (!real_clock_gettime)
        open_clock();
    int failed = real_clock_gettime(clock, told);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        told->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict told, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    told->tv_sec = now.tv_sec;
    told->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told)
        *told = now.tv_sec;
    return now.tv_sec;
}
