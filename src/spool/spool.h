/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SPOOL_SPOOL_H
#define HUSK_SPOOL_SPOOL_H

#include "base/buf.h"
#include "base/err.h"
#include "model/execution.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The events of one execution, in a file of its own: DIR/<eid>.events, appended by the one worker
 * that runs it and read by any number of others.  A record is a fixed header (magic, type, length,
 * sequence number) and the payload; records are written whole with one writev, and a reader stops
 * before a record that is not complete.  A writer over its bound writes one gap record and then
 * drops all but the last (the result).  Sequence numbers start at 1 and leave no holes but at a
 * gap.
 *
 * The end mark says how the run ended, and readers are given the result only once that is there: so
 * what they saw is what whoever settles the execution of a dead worker finds.
 */
struct spool_writer;
struct spool_reader;

/* Bytes of one event; a larger one is dropped as if the bound were reached. */
#define SPOOL_PAYLOAD_MAX (16u * 1024 * 1024 + 64 * 1024)

/* Creates the file (0660, O_EXCL). */
int spool_create(const char *dir, const char *eid, int64_t max_bytes, struct spool_writer **ret,
                 struct err *err);
/* Appends; a full disk or the bound marks the spool as gapped, it is no error. ret_seq may be NULL.
 */
int spool_append(struct spool_writer *w, const struct exec_event *ev, int64_t *ret_seq);
/* Bytes of dropped events that no gap record tells of: there was no room for that one either. */
int64_t spool_untold(const struct spool_writer *w);
/* How a run ended: what its row will say. */
struct spool_end {
    int64_t ended_at, duration_ms, bytes_stdout, bytes_stderr, bytes_rich;
    enum exec_reason reason;
    bool ok, truncated, runtime_invalidated;
    bool state_lost_told; /* its answer told that state was lost earlier */
    char error_name[sizeof((struct execution *)0)->error_name];
};

/* Marks the end: readers see spool_next return 2 behind the last record. Behind it goes the whole
 * result object of the run (NULL: there is none). end NULL: how it ended is not said. Frees w. */
int spool_finish(struct spool_writer *w, const struct spool_end *end, const char *result, size_t n,
                 struct err *err);
void spool_writer_free(struct spool_writer *w); /* without an end mark; NULL is fine */

/* Opens for reading, behind event `after_seq` (0: from the start). ERR_NOT_FOUND if it is gone. */
int spool_open(const char *dir, const char *eid, int64_t after_seq, struct spool_reader **ret,
               struct err *err);
/* 1 an event (borrowed until the next call), 0 nothing yet, 2 the end mark, -1 damaged. The result
 * comes only together with the end mark behind it. */
int spool_next(struct spool_reader *r, struct exec_event *ret, int64_t *ret_seq, struct err *err);
void spool_reader_free(struct spool_reader *r);

/* How the run ended, by its end mark; ERR_NOT_FOUND "events_gone" while or when there is none. */
int spool_get_end(const char *dir, const char *eid, struct spool_end *ret, struct err *err);
/* The result that spool_finish wrote; ERR_NOT_FOUND "events_gone" while or when there is none. */
int spool_get_result(const char *dir, const char *eid, struct buf *ret, struct err *err);

/* Removes what belongs to an execution; gone already is fine. */
void spool_remove(const char *dir, const char *eid);

#endif
