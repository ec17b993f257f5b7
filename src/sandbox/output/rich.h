/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_OUTPUT_RICH_H
#define HUSK_SANDBOX_OUTPUT_RICH_H

#include "base/buf.h"
#include "json/json.h"
#include "model/execution.h"

#include <stddef.h>

#define RICH_PLOTS_MAX 5    /* one a picture format: png, jpeg, gif, webp, svg */
#define RICH_OVERHEAD 64    /* bytes a bundle is charged beside its texts */
#define RICH_LIST_MAX 10000 /* bundles of a list */

/* One display or result as it is kept: pictures stand apart from the rest of its data. */
struct rich {
    struct bundle bundle;
    struct plot plots[RICH_PLOTS_MAX];
    size_t n_plots;
    char *display_id; /* heap, or NULL */
    size_t size;      /* bytes of data, metadata and pictures */
};

enum rich_kind { RICH_DISPLAY, RICH_UPDATE, RICH_RESULT };

/* As a backend tells it: {"data", "metadata"?, "transient"?: {"display_id"}, "execution_count"?}.
 */
struct rich_source {
    enum rich_kind kind;
    json_val content;
    size_t size; /* bytes of the JSON it came in */
};

/* 0, or -1 without memory. */
int rich_read(struct rich *ret, const struct rich_source *m);
void rich_done(struct rich *r);

/* The bytes that keeping it takes of the budget. */
size_t rich_cost(const struct rich *r);

/* Its event as JSON text; pictures are in its data. 0, or -1 without memory. */
int rich_event(struct buf *out, const struct rich_source *m);

/* Bundles in the order they came, of one kind. */
struct rich_list {
    struct rich *items; /* heap */
    size_t n, cap;
};

/* Takes *r over. 0, or -1 if the list is full (*r is untouched then). */
int rich_list_add(struct rich_list *l, struct rich *r);
void rich_list_done(struct rich_list *l); /* frees; empty afterwards */

/* Moves the bundles into a new array (*ret, *ret_n) and appends the pictures to *plots, which has
 * room.  The list is empty afterwards. */
void rich_list_take(struct rich_list *l, struct bundle **ret, size_t *ret_n, bool of_display,
                    struct plot *plots, size_t *n_plots);
size_t rich_list_plots(const struct rich_list *l);

#endif
