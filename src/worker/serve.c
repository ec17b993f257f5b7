/* SPDX-License-Identifier: MIT */
#include "worker/serve.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/sig.h"
#include "super/affinity.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sys/epoll.h>

#define IDLE_FDS_MAX 16
#define IDLE_TICK_MS 1000   /* kept channels have timers of their own */
#define SLEEP_MAX_MS 2000   /* without any; a connection whose worker does not move waits so long */
#define IO_TIMEOUT_MS 60000 /* of one read or write towards the front end */
#define TAKING_MS 10000     /* until a request is read and its own deadline known */
#define HANDED_MS 500       /* for a connection to arrive from who claimed us */
#define HEAP_SPARE_BYTES (1 << 20) /* free heap above this goes back to the system */

/* What ended a sleep, together. */
enum { WAKE_LISTEN = 1, WAKE_HANDED = 2, WAKE_END = 4 };

static int
watch(int epoll_fd, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/*
 * Sleeps until something is to do.  EPOLLEXCLUSIVE wakes one idle worker for a connection, not all
 * that share the socket; should that one be stopped before it accepts, no other is woken by the
 * same connection, so each looks for itself when it has slept long enough.  The kept channels come
 * and go with each request, so they are watched for one sleep at a time.
 */
static unsigned
sleep_idle(const struct serve *s, int epoll_fd)
{
    struct pollfd fds[IDLE_FDS_MAX];
    struct epoll_event ready[IDLE_FDS_MAX + 3];
    struct pollfd listening = {.fd = s->listen_fd, .events = POLLIN};
    unsigned wake = 0;
    int n_fds = manager_idle_fds(s->manager, fds, IDLE_FDS_MAX);

    for (int i = 0; i < n_fds; i++) /* the bits of poll and epoll are the same */
        (void)watch(epoll_fd, fds[i].fd, (uint32_t)fds[i].events);
    int n = epoll_wait(epoll_fd, ready, IDLE_FDS_MAX + 3,
                       deadline_poll_ms(s->warm ? s->warm->next : DEADLINE_NEVER,
                                        n_fds > 0 ? IDLE_TICK_MS : SLEEP_MAX_MS));
    for (int i = 0; i < n_fds; i++)
        (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fds[i].fd, NULL);

    for (int i = 0; i < n; i++) {
        if (ready[i].data.fd == s->signal_fd)
            wake |= WAKE_END;
        else if (s->hand && ready[i].data.fd == s->hand->post_fd)
            wake |= WAKE_HANDED;
        else if (ready[i].data.fd == s->listen_fd)
            wake |= WAKE_LISTEN;
    }
    if (n == 0 && poll(&listening, 1, 0) > 0)
        wake = WAKE_LISTEN;
    if (n_fds > 0)
        manager_idle(s->manager);
    return wake;
}

/* Large answers leave holes in the heap; an idle worker shall not sit on them. */
static void
give_memory_back(void)
{
    struct mallinfo2 info = mallinfo2();

    if (info.fordblks > HEAP_SPARE_BYTES)
        (void)malloc_trim(0);
}

void
serve_publish(struct score_slot *slot, struct deadline d)
{
    if (slot)
        atomic_store(&slot->deadline_ms, d.at_ms == DEADLINE_NEVER.at_ms ? 0 : d.at_ms);
}

/* What an exchange tells us goes here. */
struct serving {
    const struct serve *s;
    uint64_t tag; /* of the session that it is about; 0: none */
};

/* A transfer that moves puts the published deadline off; a later one, as that of an execution whose
 * output this is, stands. */
static void
on_renewed(void *ctx, struct deadline budget)
{
    const struct serving *v = ctx;
    struct score_slot *slot = v->s->slot;

    if (slot && budget.at_ms > atomic_load(&slot->deadline_ms))
        serve_publish(slot, budget);
}

/* The client's next request may come before we are through with this one: it shall find us. */
static void
on_ending(void *ctx)
{
    const struct serving *v = ctx;

    if (v->tag != 0)
        affinity_keep(v->s->hand->board, v->s->slot, v->tag);
    if (v->s->hand)
        affinity_ending(v->s->slot);
}

/* Reads and answers the request of a connection: 1 served, 0 the peer went. */
static int
serve_one(const struct serve *s, int conn, uint64_t tag)
{
    struct serving serving = {s, tag};
    struct http_exchange x;
    struct err target = ERR_INIT;

    if (fcgi_read(s->fcgi, conn, IO_TIMEOUT_MS, &x, &target) <= 0)
        return 0;
    if (s->slot)
        score_set(s->slot, SLOT_WORKING, x.budget);
    x.renewed = on_renewed;
    x.ending = on_ending;
    x.watch_ctx = &serving;
    api_serve(s->api, &x, x.req.path ? NULL : &target);
    fcgi_finish(s->fcgi, &x);
    http_exchange_done(&x);
    give_memory_back();
    return 1;
}

/* One connection, if there still is one: 1 served, 0 nothing or handed on, -1 unusable. */
static int
accept_and_serve(const struct serve *s, struct err *err)
{
    int conn = -1, rc = fcgi_take(s->fcgi, &conn, err);

    if (rc <= 0 || !s->hand)
        return rc <= 0 ? rc : serve_one(s, conn, 0);
    uint64_t tag = hand_tag(conn);
    if (tag != 0 && !affinity_keeps(s->slot, tag) && hand_over(s->hand, conn, tag))
        return 0;
    return serve_one(s, conn, tag);
}

/* What another worker handed to us; without it (it died, or did not wait for us) 0. */
static int
serve_handed(const struct serve *s)
{
    int conn = hand_receive(s->hand, HANDED_MS);

    score_set(s->slot, SLOT_WORKING, deadline_in(TAKING_MS)); /* the claim is over */
    return conn < 0 ? 0 : serve_one(s, conn, hand_tag(conn));
}

/*
 * Somebody claimed us in the moment in which the listening socket woke us, and perhaps nobody else:
 * a connection that waits there goes to any idle worker, or after the claimed one to us.
 */
static int
serve_claimed(const struct serve *s, struct err *err)
{
    int conn = -1, rc = fcgi_take(s->fcgi, &conn, err);

    if (rc < 0)
        return -1;
    if (rc == 1 && hand_over(s->hand, conn, 0))
        rc = 0;
    int served = serve_handed(s);
    return rc == 1 ? served + serve_one(s, conn, hand_tag(conn)) : served;
}

static int
set_up(const struct serve *s, int epoll_fd, struct err *err)
{
    if (epoll_fd < 0 || watch(epoll_fd, s->signal_fd, EPOLLIN) < 0 ||
        (s->hand && watch(epoll_fd, s->hand->post_fd, EPOLLIN) < 0) ||
        watch(epoll_fd, s->listen_fd, EPOLLIN | EPOLLEXCLUSIVE) < 0)
        return err_sys(err, ERR_INTERNAL, errno, "cannot watch the listening socket");
    return 0;
}

static bool
is_claimed(const struct serve *s)
{
    return s->hand && atomic_load(&s->slot->state) == SLOT_CLAIMED;
}

static int
on_wake(const struct serve *s, unsigned wake, struct err *err)
{
    bool ours = !s->slot || affinity_leave_idle(s->slot, SLOT_WORKING);

    if (ours) /* or whoever stops in the middle of an accept would keep its connection for ever */
        serve_publish(s->slot, deadline_in(TAKING_MS));
    if (!(wake & WAKE_LISTEN))
        return serve_handed(s);
    return ours && !(wake & WAKE_HANDED) ? accept_and_serve(s, err) : serve_claimed(s, err);
}

/* What was handed to us up to this moment is served, and from then on nothing is. */
static void
leave(const struct serve *s)
{
    affinity_clear(s->slot);
    while (!affinity_leave_idle(s->slot, SLOT_DRAINING)) {
        (void)serve_handed(s);
        affinity_become_idle(s->slot);
    }
}

int
serve_loop(const struct serve *s, struct err *err)
{
    _cleanup_close_ int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int64_t served = 0;
    bool end = false;

    if (set_up(s, epoll_fd, err) < 0)
        return -1;
    if (s->slot)
        affinity_become_idle(s->slot);
    while (!end) {
        unsigned wake;
        do {
            wake = sleep_idle(s, epoll_fd);
            if (wake == 0 && s->warm)
                warm_look(s->warm);
        } while (wake == 0 && !is_claimed(s));
        if (wake & WAKE_END)
            break;
        int rc = on_wake(s, wake, err);
        if (rc < 0)
            return -1;
        if (s->slot)
            affinity_become_idle(s->slot);
        served += rc;
        end = sig_next(s->signal_fd) != 0 || (s->max_requests > 0 && served >= s->max_requests);
    }
    if (s->hand)
        leave(s);
    if (s->slot)
        score_set(s->slot, SLOT_DRAINING, DEADLINE_NEVER);
    return 0;
}
