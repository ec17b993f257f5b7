/* SPDX-License-Identifier: MIT */
#ifndef HUSK_KEEPER_OPTIONS_H
#define HUSK_KEEPER_OPTIONS_H

#include "base/err.h"
#include "conf/settings.h"
#include "keeper/keeper.h"

/* What the keeper needs of the settings; nothing of them is referred to afterwards. The tier and
 * what it can do are not known yet. ERR_INVALID names the setting that does not fit. */
int keeper_options_of(const struct settings *s, const char *library, struct keeper_options *ret,
                      struct err *err);

/* "none", "public", "open". */
const char *egress_name(enum egress e);

#endif
