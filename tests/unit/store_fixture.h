/* SPDX-License-Identifier: MIT */
#ifndef HUSK_TESTS_UNIT_STORE_FIXTURE_H
#define HUSK_TESTS_UNIT_STORE_FIXTURE_H

#include <limits.h>

#include "store/db.h"
#include "store/execution_store.h"
#include "store/runtime_store.h"
#include "store/session_store.h"

/* A migrated database in a folder of its own for each test, and a clock that tests move. */
struct store_fixture {
    char dir[PATH_MAX];
    char path[PATH_MAX];
    struct db *db;
    struct db_now now;
};

int store_fixture_setup(void **state);
int store_fixture_teardown(void **state);

/* Both clocks go on. */
void store_fixture_pass(struct store_fixture *f, int64_t ms);
/* The first column of the first row, as text, read by a connection of its own; valid until the
 * next call. */
const char *store_fixture_ask(const struct store_fixture *f, const char *sql);

/* The arguments of an ordinary open; ids are fresh. */
struct session_open_args store_fixture_open_args(const struct store_fixture *f, const char *owner,
                                                 const char *name);
/* Opens and returns the outcome; the session's sid in *ret_sid when there is one. */
enum session_open_outcome store_fixture_open(const struct store_fixture *f, const char *owner,
                                             const char *name, int64_t *ret_sid);
/* A session in state ready, its runtime's handle "k-NAME". */
int64_t store_fixture_ready(const struct store_fixture *f, const char *owner, const char *name);
/* A session's state, "gone" if it is. */
const char *store_fixture_state(const struct store_fixture *f, int64_t sid);

/* The row and arguments of an ordinary execution; the row is kept for the next call's. */
struct execution_begin_args store_fixture_exec_args(const struct store_fixture *f, int64_t sid,
                                                    const char *request_id, struct execution *row);

#endif
