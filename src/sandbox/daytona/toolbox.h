/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SANDBOX_DAYTONA_TOOLBOX_H
#define HUSK_SANDBOX_DAYTONA_TOOLBOX_H

#include "sandbox/daytona/daytona.h"

/*
 * Calls to a box's toolbox.  Each is bounded as those of api.h, and has their errors; besides,
 * a failure is looked into: is it the box?  Then it is ERR_CONFLICT "runtime_gone" (it is ended or
 * broken) or TOOLBOX_ASLEEP (stopped, or on its way): wake it and try once more.
 */
#define TOOLBOX_ASLEEP "asleep" /* a slug within this folder, with ERR_CONFLICT */

/* Points dt->toolbox at the box: paths are then "/{id}/…". */
int toolbox_aim(struct daytona *dt, const char *id, struct deadline d, struct err *err);

/* A call, without looking into it: the answer whatever its status. path begins behind the box. */
int toolbox_ask(struct daytona *dt, const char *id, const char *method, const char *path,
                const char *body, const char *what, struct deadline d, struct rest_reply *ret,
                struct err *err);

/* After a call to the toolbox failed with *err: what it comes from is put in its place. Always -1.
 * ERR_NOT_FOUND stays where the box is well: it is the toolbox's own word. */
int toolbox_look_into(struct daytona *dt, const char *id, struct deadline d, struct err *err);

/* Begins a call beside other work (rest_step(dt->toolbox) moves it). */
int toolbox_begin(struct daytona *dt, const char *id, const char *method, const char *path,
                  const char *body, struct deadline d, struct err *err);

/* A POST beside a call under way. Its answer does not matter. */
int toolbox_aside(struct daytona *dt, const char *id, const char *path, const char *body,
                  struct deadline d, struct err *err);

/* Makes a folder, with its parents; there already is fine. path is absolute. */
int toolbox_folder(struct daytona *dt, const char *id, const char *path, size_t n,
                   struct deadline d, struct err *err);

/* A new interpreter context, in the workspace. ERR_NOT_FOUND: the box has no interpreter. */
int toolbox_context_new(struct daytona *dt, const char *id, char *ret, size_t size,
                        struct deadline d, struct err *err);
/* Is it there, with its process? 1 or 0. */
int toolbox_context_lives(struct daytona *dt, const char *id, const char *context,
                          struct deadline d, struct err *err);
/* From the answer to the same question, asked by toolbox_begin(): -1 is none of the toolbox's. */
int toolbox_context_listed(const struct rest_reply *r, const char *context);
#define TOOLBOX_CONTEXTS "/process/interpreter/context"
/* Ends one context, or all of them; gone already is fine. */
int toolbox_context_end(struct daytona *dt, const char *id, const char *context, struct deadline d,
                        struct err *err);
int toolbox_contexts_end(struct daytona *dt, const char *id, struct deadline d, struct err *err);

/* The body of a command for /process/execute, in the workspace. */
void toolbox_command(struct buf *out, const char *command);

#endif
