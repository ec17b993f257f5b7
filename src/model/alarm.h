/* SPDX-License-Identifier: MIT */
#ifndef HUSK_MODEL_ALARM_H
#define HUSK_MODEL_ALARM_H

#include "model/session.h"

/* Something an operator should look at. */
#define ALARM_WHAT_MAX 15
#define ALARM_DETAIL_MAX 199
struct alarm {
    char what[ALARM_WHAT_MAX + 1]; /* the kind */
    char owner[OWNER_MAX + 1];     /* "" if it is about no session */
    char name[SESSION_NAME_MAX + 1];
    char detail[ALARM_DETAIL_MAX + 1];
};

#define ALARM_READER "long_reader"
#define ALARM_WRITER "long_writer"
#define ALARM_WAL "wal_size"
#define ALARM_WORKER "worker" /* past its deadline; huskctl's look at the scoreboard */

/* The kinds that a manager gives, NULL at the end; those of the view v_alarms among them. */
extern const char *const alarm_kinds[];

#endif
