/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static int64_t
read_us(clockid_t id)
{
    struct timespec ts = {0, 0};

    (void)clock_gettime(id, &ts); /* fails for an unknown clock only */
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
clock_mono_ms(void)
{
    return read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t
clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t
clock_boot_ms(void)
{
    return read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t
clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

struct deadline
deadline_in(int64_t ms)
{
    int64_t now = clock_mono_ms();

    if (ms < 0)
        ms = 0;
    return ms > INT64_MAX - now ? DEADLINE_NEVER : (struct deadline){now + ms};
}

struct deadline
deadline_min(struct deadline a, struct deadline b)
{
    return a.at_ms < b.at_ms ? a : b;
}

bool
deadline_passed(struct deadline d)
{
    return d.at_ms != INT64_MAX && clock_mono_ms() >= d.at_ms;
}

int64_t
deadline_left_ms(struct deadline d)
{
    int64_t now = clock_mono_ms();

    if (d.at_ms == INT64_MAX)
        return INT64_MAX;
    return d.at_ms > now ? d.at_ms - now : 0;
}

int
deadline_poll_ms(struct deadline d, int cap_ms)
{
    int64_t left = deadline_left_ms(d);

    return left < cap_ms ? (int)left : cap_ms;
}

/* Splits wall-clock milliseconds; times before 1970 or after 9999 are taken as those ends. */
static int
split(int64_t wall_ms, struct tm *ret)
{
    const int64_t end_ms = INT64_C(253402300799999); /* 9999-12-31T23:59:59.999Z */
    time_t t;

    if (wall_ms < 0)
        wall_ms = 0;
    if (wall_ms > end_ms)
        wall_ms = end_ms;
    t = (time_t)(wall_ms / 1000);
    (void)gmtime_r(&t, ret);
    return (int)(wall_ms % 1000);
}

void
clock_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE])
{
    struct tm tm;
    int ms = split(wall_ms, &tm);
    size_t n = strftime(out, CLOCK_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);

    (void)snprintf(out + n, CLOCK_RFC3339_SIZE - n, ".%03uZ", (unsigned)ms % 1000);
}

void
clock_http(int64_t wall_ms, char out[CLOCK_HTTP_SIZE])
{
    struct tm tm;

    (void)split(wall_ms, &tm);
    /* Not strftime's %a and %b: those follow the locale. */
    (void)snprintf(out, CLOCK_HTTP_SIZE, "%s, %02u %s %04u %02u:%02u:%02u GMT",
                   day_names[tm.tm_wday], (unsigned)tm.tm_mday % 100, month_names[tm.tm_mon],
                   (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
                   (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

/* n decimal digits, -1 if there is anything else. */
static int
digits(const char *s, int n)
{
    int v = 0;

    for (int i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

static int
name_index(const char (*names)[4], int n, const char *s)
{
    for (int i = 0; i < n; i++)
        if (memcmp(names[i], s, 3) == 0)
            return i;
    return -1;
}

int
clock_parse_http(const char *s, int64_t *ret_wall_ms)
{
    static const char shape[] = "aaa, 00 aaa 0000 00:00:00 GMT";
    struct tm tm = {.tm_isdst = 0}, back;
    time_t t;
    int wday, year;

    if (strlen(s) != sizeof shape - 1)
        return 0;
    for (size_t i = 0; i < sizeof shape - 1; i++)
        if (shape[i] != 'a' && shape[i] != '0' && shape[i] != s[i])
            return 0;
    wday = name_index(day_names, 7, s);
    tm.tm_mday = digits(s + 5, 2);
    tm.tm_mon = name_index(month_names, 12, s + 8);
    year = digits(s + 12, 4);
    tm.tm_hour = digits(s + 17, 2);
    tm.tm_min = digits(s + 20, 2);
    tm.tm_sec = digits(s + 23, 2);
    if (wday < 0 || tm.tm_mday < 1 || tm.tm_mon < 0 || year < 1970 || tm.tm_hour < 0 ||
        tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return 0;
    tm.tm_year = year - 1900;
    back = tm;
    if (back.tm_sec == 60) /* a leap second, which POSIX time does not know */
        back.tm_sec = 59;
    tm = back;
    t = timegm(&back);
    /* A day that the month does not have comes back as another one. */
    if (back.tm_mday != tm.tm_mday || back.tm_mon != tm.tm_mon || back.tm_wday != wday)
        return 0;
    *ret_wall_ms = (int64_t)t * 1000;
    return 1;
}

void
clock_boot_id(char out[CLOCK_BOOT_ID_SIZE])
{
    ssize_t n = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        n = read(fd, out, CLOCK_BOOT_ID_SIZE - 1);
        (void)close(fd);
    }
    if (n == CLOCK_BOOT_ID_SIZE - 1)
        out[n] = '\0';
    else
        (void)snprintf(out, CLOCK_BOOT_ID_SIZE, "unknown");
}
