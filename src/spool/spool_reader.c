/* SPDX-License-Identifier: MIT */
#include "spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "spool/spool_format.h"

struct spool_reader {
    int fd;
    off_t at;          /* of the next record */
    int64_t seq;       /* of the last record seen */
    int64_t after_seq; /* events up to this one are passed over */
    bool ended;
    struct buf payload;
};

int
spool_open(const char *dir, const char *eid, int64_t after_seq, struct spool_reader **ret,
           struct err *err)
{
    char path[SPOOL_NAME_MAX];
    if (spool_path(dir, eid, SPOOL_EVENTS, path, err) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return err_slug(err, ERR_NOT_FOUND, "events_gone", "the events of %s are not kept", eid);
    if (fd < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot open %s", path);
    struct spool_reader *r = xcalloc(1, sizeof(*r));
    r->fd = fd;
    r->after_seq = after_seq;
    buf_init(&r->payload, SPOOL_PAYLOAD_MAX);
    *ret = r;
    return 0;
}

static int
damaged(const struct spool_reader *r, struct err *err, const char *what)
{
    return err_set(err, ERR_INTERNAL, "the spool is damaged at byte %" PRId64 ": %s",
                   (int64_t)r->at, what);
}

/* 1 a whole record stands at r->at, 0 not yet, -1 damaged. */
static int
peek(struct spool_reader *r, struct spool_header *h, struct err *err)
{
    struct stat st;
    if (fstat(r->fd, &st) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot look at the spool");
    if (st.st_size - r->at < (off_t)sizeof(*h))
        return 0;
    if (fd_pread_all(r->fd, h, sizeof(*h), r->at) < 0) {
        if (errno == ENODATA)
            return 0; /* cut off in between */
        return err_sys(err, ERR_INTERNAL, errno, "cannot read the spool");
    }
    if (h->magic != SPOOL_MAGIC || h->zero != 0)
        return damaged(r, err, "no record begins here");
    if (h->type > EVENT_RESULT && h->type != SPOOL_END)
        return damaged(r, err, "unknown type");
    if (h->length > SPOOL_PAYLOAD_MAX || (h->type == SPOOL_END && h->length))
        return damaged(r, err, "too long");
    if (h->seq <= r->seq)
        return damaged(r, err, "out of order");
    return st.st_size - r->at - (off_t)sizeof(*h) >= (off_t)h->length;
}

int
spool_next(struct spool_reader *r, struct exec_event *ret, int64_t *ret_seq, struct err *err)
{
    while (!r->ended) {
        struct spool_header h;
        int rc = peek(r, &h, err);
        if (rc <= 0)
            return rc;
        off_t payload_at = r->at + (off_t)sizeof(h);
        bool wanted = h.type != SPOOL_END && h.seq > r->after_seq;
        if (wanted) {
            buf_clear(&r->payload);
            char *p = buf_reserve(&r->payload, h.length);
            if (!p)
                return err_set(err, ERR_NOMEM, "no memory for an event of %u bytes", h.length);
            if (fd_pread_all(r->fd, p, h.length, payload_at) < 0) {
                if (errno == ENODATA)
                    return 0;
                return err_sys(err, ERR_INTERNAL, errno, "cannot read the spool");
            }
            buf_added(&r->payload, h.length);
        }
        r->at = payload_at + (off_t)h.length;
        r->seq = h.seq;
        r->ended = h.type == SPOOL_END;
        if (wanted) {
            *ret = (struct exec_event){(enum exec_event_type)h.type, buf_str(&r->payload),
                                       r->payload.len};
            *ret_seq = h.seq;
            return 1;
        }
    }
    return 2;
}

void
spool_reader_free(struct spool_reader *r)
{
    if (!r)
        return;
    (void)close(r->fd);
    buf_done(&r->payload);
    free(r);
}
