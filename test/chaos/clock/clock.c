/* Preloaded into redis-server, this makes its wall clock as wrong as the file named in
   CHAOS_CLOCK says: eight bytes, a number of seconds. The monotonic clock stays right,
   as it does when an operator or NTP sets the time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wrong;

__attribute__((constructor)) static void chaos_open(void)
{
	const char *path = getenv("CHAOS_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof *wrong, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		wrong = p;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int failed = syscall(SYS_clock_gettime, clock, t);
	if (!failed && wrong && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += *wrong;
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
