/* SPDX-License-Identifier: MIT */
#ifndef HUSK_SUPPORT_API_FIXTURE_H
#define HUSK_SUPPORT_API_FIXTURE_H

#include "api/api.h"
#include "json/json.h"
#include "support/fake_carrier.h"
#include "support/manager_fixture.h"

/* The API over a real manager with a fake backend, asked through a carrier in memory. */
struct api_fixture {
    struct fixture base;
    struct api_options o;
    struct api *api;
    struct fake_carrier f; /* of the last request */
    bool asked;
    struct json_doc *doc; /* of the last answer */
};

/* Of a test: *state is a fresh fixture, which is the program's only one. */
int api_setup(void **state);
/* The same with session "s" open in it. */
int api_setup_session(void **state);
int api_teardown(void **state);
/* The API anew with a->o as it is now. */
void api_fixture_restart(struct api_fixture *a);

/* Begins a request (ending the one before); headers and a body may follow. */
void api_begin(struct api_fixture *a, const char *method, const char *target);
/* Serves it; the status. */
int api_finish(struct api_fixture *a);
/* Both in one; json NULL: no body. */
int api_ask(struct api_fixture *a, const char *method, const char *target, const char *json);

/* Of the last answer: a member of its JSON body ("a.b" goes down); absent if there is none. */
json_val api_member(struct api_fixture *a, const char *path);
/* A string member, "" if it is none. */
const char *api_text(struct api_fixture *a, const char *path);
const char *api_header(struct api_fixture *a, const char *name);
const char *api_body(struct api_fixture *a, size_t *ret_n);

/* Asks and fails the test unless status and (of a problem) code are these. */
#define api_expect(a, method, target, json, status, code)                                          \
    api_expect_at(a, method, target, json, status, code, __FILE__, __LINE__)
void api_expect_at(struct api_fixture *a, const char *method, const char *target, const char *json,
                   int status, const char *code, const char *file, int line);
/* The same for a request that was begun. */
#define api_finish_expect(a, status, code) api_finish_expect_at(a, status, code, __FILE__, __LINE__)
void api_finish_expect_at(struct api_fixture *a, int status, const char *code, const char *file,
                          int line);

#endif
