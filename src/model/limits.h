/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MODEL_LIMITS_H
#define HUSK_MODEL_LIMITS_H

#include <stdint.h>

/* Bounds on which the API and the front end's configuration must agree. */

/* Bytes of a JSON body that carries no code. */
#define LIMIT_JSON_BODY 65536

/* Bytes of the body of a call that runs code: escapes can double ordinary code (six times would be
 * control characters only); what is longer is refused by its size. */
static inline int64_t
limit_exec_body(int64_t max_code_bytes)
{
    return 2 * max_code_bytes + LIMIT_JSON_BODY;
}

/* The same where inputs come along, in base64. */
static inline int64_t
limit_once_body(int64_t max_code_bytes, int64_t max_input_bytes)
{
    return limit_exec_body(max_code_bytes) + (max_input_bytes + 2) / 3 * 4 + LIMIT_JSON_BODY;
}

/* How long such a call may take at the most: a start, a wait for the turn, the run and its graces.
 */
static inline int64_t
limit_exec_ms(int64_t start_timeout_ms, int64_t turn_wait_ms, int64_t max_exec_timeout_ms)
{
    const int64_t graces_ms = 30000;

    return start_timeout_ms + turn_wait_ms + max_exec_timeout_ms + graces_ms;
}

/* The same where the call opens its session, keeps what came out and closes it again. */
static inline int64_t
limit_once_ms(int64_t start_timeout_ms, int64_t turn_wait_ms, int64_t max_exec_timeout_ms,
              int64_t http_timeout_ms)
{
    const int64_t keeping_ms = 60000;

    return limit_exec_ms(start_timeout_ms, turn_wait_ms, max_exec_timeout_ms) + start_timeout_ms +
           4 * http_timeout_ms + keeping_ms;
}

#endif
