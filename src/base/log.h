/* SPDX-License-Identifier: MIT */
#ifndef HUSK_BASE_LOG_H
#define HUSK_BASE_LOG_H

#include <stdbool.h>

/*
 * One line a record on stderr, written with one write(2) (at most 4 KiB; control characters are
 * escaped).  Text: "2026-01-02T03:04:05.678Z husk-worker[123] warning: message request=…
 * session=…". With json the same as one object: time, level, program, pid, message, request_id,
 * session_id, execution_id.
 */
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Names the program (borrowed), the lowest level shown, and the format. */
void log_init(const char *program, enum log_level level, bool json);
/* The same under another program's name: for what is forked and goes its own way. */
void log_rename(const char *program);

/* Ids shown on every following record; copies, NULL or "" clears. */
void log_set_request(const char *request_id);
void log_set_session(const char *session_id);
void log_set_execution(const char *execution_id);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
