/* SPDX-License-Identifier: MIT */
#ifndef HUSK_STORE_ALARM_STORE_H
#define HUSK_STORE_ALARM_STORE_H

#include "base/err.h"
#include "model/alarm.h"
#include "store/db.h"

/* Rows of the view v_alarms, at most max; returns how many, or -1. */
int alarm_store_list(struct db *db, struct alarm *ret, int max, struct err *err);

#endif
