/* Another time of day for one process: preloaded, it adds SOAK_CLOCK_S seconds to the real time.
   Intervals stay right. What waits until a time of day is told the real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Times of day are beyond this second; those of a monotonic clock are not, for 30 years. */
#define TIME_OF_DAY 1000000000

static long ahead(void) {
    static long seconds;
    static int known;
    if (!known) {
        const char *text = getenv("SOAK_CLOCK_S");
        seconds = text ? atol(text) : 0;
        known = 1;
    }
    return seconds;
}

static struct timespec real_time(const struct timespec *fake) {
    struct timespec found = *fake;
    if (found.tv_sec > TIME_OF_DAY) found.tv_sec -= ahead();
    return found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (result == 0 && now) now->tv_sec += ahead();
    return result;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until) {
    static __typeof__(&pthread_cond_timedwait) real;
    if (!real) real = REAL(pthread_cond_timedwait);
    struct timespec found = real_time(until);
    return real(condition, mutex, &found);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static __typeof__(&sem_timedwait) real;
    if (!real) real = REAL(sem_timedwait);
    struct timespec found = real_time(until);
    return real(semaphore, &found);
}
