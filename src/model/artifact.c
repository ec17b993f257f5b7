/* SPDX-License-Identifier: MIT */
#include "model/artifact.h"

#include <stdlib.h>

#include "base/cleanup.h"

static const char *const names[] = {
    [LEFT_TOO_MANY] = "too_many",       [LEFT_TOO_LARGE] = "too_large",
    [LEFT_QUOTA_COUNT] = "quota_count", [LEFT_QUOTA_BYTES] = "quota_bytes",
    [LEFT_UNREADABLE] = "unreadable",   [LEFT_TIME] = "no_time",
};

const char *
left_out_name(enum left_out r)
{
    return names[r];
}

void
artifact_report_leave(struct artifact_report *r, const char *path, enum left_out why)
{
    r->left_total++;
    if (r->n_left == ARTIFACTS_PER_RUN)
        return;
    if (!r->left)
        r->left = xcalloc(ARTIFACTS_PER_RUN, sizeof(*r->left));
    r->left[r->n_left++] = (struct artifact_left_out){xstrdup(path), why};
}

void
artifact_report_done(struct artifact_report *r)
{
    for (size_t i = 0; i < r->n_left; i++)
        free(r->left[i].path);
    free(r->left);
    free(r->kept);
    *r = (struct artifact_report){0};
}
