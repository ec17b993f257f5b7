/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_SSE_H
#define HUSK_API_SSE_H

#include "api/call.h"
#include "spool/spool.h"

/*
 * An execution's events as a stream of server-sent events (WHATWG HTML 9.2), read from its spool
 * and framed piece by piece into a buffer of bounded size, so that a slow reader costs no memory
 * and never stops what it reads about.
 */
struct sse {
    struct api_call *call;
    struct spool_reader *reader; /* NULL until attached */
    struct buf out;              /* framed, not yet sent */
    struct exec_event ev;        /* being framed; borrowed from the reader */
    size_t off;                  /* how much of it is framed */
    bool in_event;
    bool ended; /* the spool's end mark, or it is damaged */
    bool gap_seen;
    bool result_seen;     /* a result went out: nothing may follow it */
    int64_t untold_bytes; /* of events that the spool lacks without a word (a full disk) */
    int64_t last_seq;
    int64_t n_events;
    int64_t moved_ms; /* CLOCK_MONOTONIC: bytes last went out */
};

enum sse_state {
    SSE_IDLE,    /* all that is in the spool now is sent */
    SSE_PENDING, /* the peer takes no more just now */
    SSE_ENDED,   /* everything is sent, and there will be no more */
    SSE_GONE     /* the peer is gone */
};

/* Sends the head of the stream. -1: the peer is gone. */
int sse_begin(struct sse *s, struct api_call *c);
void sse_done(struct sse *s);
/* Reads the spool of eid from behind after_seq. */
int sse_attach(struct sse *s, const char *eid, int64_t after_seq, struct err *err);
/* Sends what goes without blocking, at most a bounded amount; a comment when it has been quiet. */
enum sse_state sse_pump(struct sse *s);
/* Sends the rest of the spool as it stands, blocking while the peer takes something. */
int sse_flush(struct sse *s);
/* Ends the stream: if it has had no result yet, the one for this row is sent, with all its text
 * where there was no spool to send that from. after_seq as attached. */
void sse_end(struct sse *s, const struct execution *row, const struct execution_result *r,
             const struct session *session, int64_t after_seq);

#endif
