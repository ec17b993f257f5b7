/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SPOOL_SPOOL_FORMAT_H
#define HUSK_SPOOL_SPOOL_FORMAT_H

#include "base/err.h"
#include "spool/spool.h"

#include <stdint.h>

/* Private to spool: what stands in DIR/<eid>.events, in the byte order of the machine (the file
 * never leaves it). */
#define SPOOL_MAGIC UINT32_C(0x314c5053) /* "SPL1" */
#define SPOOL_END                                                                                  \
    UINT32_C(255) /* a type: the end mark; its payload is how the run ended, or nothing */
#define SPOOL_RESULT UINT32_C(254) /* a type: the whole result, behind the end mark; see below */

struct spool_header {
    uint32_t magic;
    uint32_t type; /* enum exec_event_type, SPOOL_END or SPOOL_RESULT */
    uint32_t length;
    uint32_t zero;
    int64_t seq;
};

/* The end mark's payload. */
struct spool_end_record {
    int64_t ended_at, duration_ms, bytes_stdout, bytes_stderr, bytes_rich;
    uint32_t reason;
    uint8_t ok, truncated, runtime_invalidated, state_lost_told;
    char error_name[sizeof((struct execution *)0)->error_name];
};

/* The result's record ends the file: its payload is followed by a header of the same type without
 * payload, whose seq is the offset of the record's own header, so that the result is found from the
 * end. No payload can pass for it: 0xfe is no byte of UTF-8, which all events are. */

#define SPOOL_EVENTS ".events" /* behind the execution's id: the file's name */
#define SPOOL_NAME_MAX 512
/* "DIR/<eid>SUFFIX"; ERR_INVALID when eid is none or the path is too long. */
int spool_path(const char *dir, const char *eid, const char *suffix, char out[SPOOL_NAME_MAX],
               struct err *err);

#endif
