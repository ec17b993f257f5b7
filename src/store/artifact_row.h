/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_ARTIFACT_ROW_H
#define HUSK_STORE_ARTIFACT_ROW_H

#include "model/artifact.h"
#include "store/sql.h"

/* An artifact with one of its versions, in this order; private to this folder. */
#define ARTIFACT_COLUMNS                                                                           \
    "a.aid, a.artifact_id, a.owner, a.session_name, a.ref, v.version, a.path, v.size, v.sha256,"   \
    " v.created_at, v.eid"
#define ARTIFACT_FROM " FROM artifacts a JOIN artifact_versions v ON v.aid = a.aid"

void row_artifact(sqlite3_stmt *stmt, struct artifact *ret);

#endif
