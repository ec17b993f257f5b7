/* SPDX-License-Identifier: MIT */
#ifndef HUSK_API_FOLLOW_H
#define HUSK_API_FOLLOW_H

#include "api/call.h"
#include "model/execution.h"

/* Answers with a run that this request does not run itself: an ended one from what is kept of it,
 * a running one by following it to its end. row is brought up to date. */

/* As an event stream, from behind after_seq. */
void follow_stream(struct api_call *c, struct execution *row, int64_t after_seq);
/* As one result object, when it has ended. */
void follow_result(struct api_call *c, struct execution *row);

#endif
