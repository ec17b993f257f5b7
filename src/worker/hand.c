/* SPDX-License-Identifier: MIT */
#include "worker/hand.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/post.h"
#include "fcgi/peek.h"
#include "super/affinity.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POST_PATH_MAX 108
#define TARGET_MAX 512   /* a longer one names no session */
#define FIRST_BYTES_MS 5 /* nginx sends the parameters with the connection */
#define TAKE_MS 250      /* an idle worker takes a connection in microseconds */

static int
post_path(const struct hand *h, int slot, char ret[POST_PATH_MAX])
{
    int n = snprintf(ret, POST_PATH_MAX, "%s/post-%d", h->runtime_dir, slot);

    return n > 0 && n < POST_PATH_MAX ? 0 : -1;
}

int
hand_open(struct hand *h, struct scoreboard *board, int slot, enum lane lane,
          const char *runtime_dir, struct err *err)
{
    char path[POST_PATH_MAX];

    *h = (struct hand){.board = board,
                       .own = scoreboard_slot(board, slot),
                       .slot = slot,
                       .runtime_dir = runtime_dir,
                       .lane = lane,
                       .post_fd = -1};
    affinity_clear(h->own);
    if (post_path(h, slot, path) < 0)
        return err_set(err, ERR_INVALID, "SANDBOX_RUNTIME_DIR is too long for socket paths");
    h->post_fd = post_open(path, err);
    return h->post_fd < 0 ? -1 : 0;
}

void
hand_close(struct hand *h)
{
    if (h->post_fd >= 0)
        (void)close(h->post_fd);
    h->post_fd = -1;
}

uint64_t
hand_tag(int conn)
{
    static const char prefix[] = "/v1/sessions/";
    char target[TARGET_MAX];

    if (fcgi_peek_param(conn, "REQUEST_URI", target, sizeof(target), FIRST_BYTES_MS) < 0 ||
        strncmp(target, prefix, sizeof(prefix) - 1) != 0)
        return 0;
    const char *name = target + sizeof(prefix) - 1;
    return affinity_tag(name, strcspn(name, "/?"));
}

bool
hand_over(struct hand *h, int conn, uint64_t tag)
{
    char path[POST_PATH_MAX];
    int to = affinity_claim(h->board, h->own, h->lane, tag);

    if (to < 0)
        return false;
    uint64_t offer = affinity_offer(h->board, h->slot);
    if (post_path(h, to, path) < 0 || post_send(h->post_fd, path, conn, offer) < 0) {
        (void)affinity_await(h->board, offer, 0);
        affinity_unclaim(scoreboard_slot(h->board, to));
        return false;
    }
    if (!affinity_await(h->board, offer, TAKE_MS)) {
        log_warning("the worker of slot %d does not move: its request is served here", to);
        return false;
    }
    (void)close(conn);
    return true;
}

int
hand_receive(struct hand *h, int wait_ms)
{
    struct pollfd p = {h->post_fd, POLLIN, 0};

    uint64_t offer = 0;

    if (poll(&p, 1, wait_ms) != 1)
        return -1;
    int conn = post_receive(h->post_fd, &offer);
    if (conn >= 0 && !affinity_take(h->board, offer))
        cleanup_close(&conn);
    return conn;
}
