/* SPDX-License-Identifier: MIT */
#include "model/alarm.h"

#include <stddef.h>

const char *const alarm_kinds[] = {
    "reaper",     "quarantined", "overdue", "long run", "stray",
    ALARM_READER, ALARM_WRITER,  ALARM_WAL, NULL,
};
