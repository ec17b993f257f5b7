/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MANAGER_CAPTURE_H
#define HUSK_MANAGER_CAPTURE_H

#include "manager/internal.h"
#include "workspace/snapshot.h"

/* How long looking for what a run changed, and keeping it, may take. */
#define CAPTURE_MS 20000

/* What a run is to keep, seen from before it to after it: by the workspace here, or where the
 * session's runtime holds its files, by the backend's calls. */
struct capture {
    struct workspace ws; /* root_fd -1: the files are not here */
    struct sandbox *sb;  /* NULL: they are not there; neither: nothing is kept */
    char handle[HANDLE_MAX + 1];
    struct snapshot *before;
};

/* not_implemented where a backend's files end with what runs. */
int capture_possible(struct manager *m, const char *backend, struct err *err);
/* Looks at the files before the run; nothing is to be done when the request keeps nothing. The
 * caller has the session's turn; *s is read anew where a runtime had to be made for it. */
int capture_begin(struct manager *m, const struct execution_request *q, struct session *s,
                  struct capture *ret, struct err *err);
/* Which runtime has the files after the run; it may be let go of afterwards. */
void capture_runtime(struct capture *c, const char *handle);
/* Keeps what the run made, however it ended; what cannot be kept is said in *ret. */
void capture_end(struct manager *m, struct capture *c, const struct execution_request *q,
                 const struct execution *row, struct artifact_report *ret);
void capture_done(struct capture *c);

#endif
