/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_CLOCK_H
#define HUSK_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t clock_mono_ms(void); /* CLOCK_MONOTONIC */
int64_t clock_mono_us(void);
int64_t clock_boot_ms(void); /* CLOCK_BOOTTIME: the idle clock; counts through suspend */
int64_t clock_wall_ms(void); /* CLOCK_REALTIME: to store and to print only */

/* A point of the monotonic clock. */
struct deadline {
    int64_t at_ms;
};

#define DEADLINE_NEVER ((struct deadline){INT64_MAX})

struct deadline deadline_in(int64_t ms);
struct deadline deadline_min(struct deadline a, struct deadline b);
bool deadline_passed(struct deadline d);
int64_t deadline_left_ms(struct deadline d); /* 0 when passed */
/* For poll(2): 0..INT_MAX, at most cap_ms. */
int deadline_poll_ms(struct deadline d, int cap_ms);

#define CLOCK_RFC3339_SIZE 25
/* "2026-01-02T03:04:05.678Z" from wall-clock milliseconds. */
void clock_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);
/* "Tue, 01 Dec 2026 00:00:00 GMT" (IMF-fixdate, RFC 9110 5.6.7). */
#define CLOCK_HTTP_SIZE 30
void clock_http(int64_t wall_ms, char out[CLOCK_HTTP_SIZE]);
/* The inverse; 1 if it is a valid IMF-fixdate, else 0. */
int clock_parse_http(const char *s, int64_t *ret_wall_ms);

#define CLOCK_BOOT_ID_SIZE 37
/* The kernel's boot id; "unknown" where it cannot be read. */
void clock_boot_id(char out[CLOCK_BOOT_ID_SIZE]);

#endif
