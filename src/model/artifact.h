/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MODEL_ARTIFACT_H
#define HUSK_MODEL_ARTIFACT_H

#include "base/digest.h"
#include "base/id.h"
#include "model/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest path of a workspace, in bytes. */
#define ARTIFACT_PATH_MAX 1024
/* How many files one run keeps. */
#define ARTIFACTS_PER_RUN 64

/* One version of a file that was kept. */
struct artifact {
    int64_t aid; /* internal; never reused */
    char artifact_id[ID_UUID_SIZE];
    char owner[OWNER_MAX + 1];
    char session_name[SESSION_NAME_MAX + 1]; /* the scope of paths and short references */
    int64_t ref;                             /* 1 is shown as A1 */
    int64_t version;                         /* from 1 */
    char path[ARTIFACT_PATH_MAX + 1];        /* bytes, no NUL among them */
    int64_t size;
    char sha256[SHA256_HEX_SIZE];
    int64_t created_at; /* wall ms, of this version */
    char eid[ID_UUID_SIZE];
};

/* Why a file was not kept. */
enum left_out {
    LEFT_TOO_MANY,    /* more than ARTIFACTS_PER_RUN in one run */
    LEFT_TOO_LARGE,   /* over ARTIFACT_MAX_BYTES */
    LEFT_QUOTA_COUNT, /* the owner's number of versions */
    LEFT_QUOTA_BYTES, /* the owner's bytes */
    LEFT_UNREADABLE,  /* its permissions, or it went away or could not be stored */
    LEFT_TIME         /* there was no time left for it */
};
const char *left_out_name(enum left_out r);

struct artifact_left_out {
    char *path; /* heap */
    enum left_out why;
};

/* What a run kept, all heap. */
struct artifact_report {
    struct artifact *kept;
    size_t n_kept;
    struct artifact_left_out *left; /* the first ones; */
    size_t n_left;
    int64_t left_total; /* so many there were */
};
void artifact_report_done(struct artifact_report *r); /* frees and zeroes */
/* Notes a file that is not kept; of more than ARTIFACTS_PER_RUN only the number. */
void artifact_report_leave(struct artifact_report *r, const char *path, enum left_out why);

#endif
