/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/kept.h"

#include <string.h>

#include "base/clock.h"

static struct channel *
take_at(struct kept *k, int i)
{
    struct channel *c = k->list[i];

    k->n--;
    for (; i < k->n; i++)
        k->list[i] = k->list[i + 1];
    return c;
}

bool
kept_room(const struct kept *k)
{
    return k->n < k->max;
}

struct channel *
kept_take(struct kept *k, const char *handle)
{
    struct channel *c;

    /* First whatever came in meanwhile: a restart notice, the other end's close. */
    kept_service(k);
    for (int i = 0; i < k->n; i++) {
        if (strcmp(k->list[i]->handle, handle) != 0)
            continue;
        c = take_at(k, i);
        c->heard_ms = clock_mono_ms();
        c->warm = false;
        return c;
    }
    return NULL;
}

void
kept_put(struct kept *k, struct channel *c)
{
    if (k->max <= 0 || !channel_fit(c)) {
        channel_free(c);
        return;
    }
    kept_drop(k, c->handle);
    while (k->n > 0 && k->n >= k->max)
        channel_free(take_at(k, 0));
    c->used_ms = clock_mono_ms();
    k->list[k->n++] = c;
}

void
kept_drop(struct kept *k, const char *handle)
{
    for (int i = k->n - 1; i >= 0; i--)
        if (handle == NULL || strcmp(k->list[i]->handle, handle) == 0)
            channel_free(take_at(k, i));
}

void
kept_service(struct kept *k)
{
    int64_t now;

    if (k->n == 0)
        return;
    ws_service(k->pool);
    now = clock_mono_ms();
    for (int i = k->n - 1; i >= 0; i--)
        if (!channel_fit(k->list[i]) ||
            (!k->list[i]->warm && now - k->list[i]->used_ms > KEPT_IDLE_MS))
            channel_free(take_at(k, i));
}

int
kept_fds(const struct kept *k, struct pollfd *fds, int max)
{
    int n = 0;

    for (int i = 0; i < k->n && n < max; i++)
        n += ws_pollfd(k->list[i]->ws, &fds[n]);
    return n;
}
