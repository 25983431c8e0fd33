/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows and settings of a comparison in words. */
#ifndef SONDE_SHOW_COMPARE_WORDS_H
#define SONDE_SHOW_COMPARE_WORDS_H

#include "judge/compare.h"

/* "faults: 2 MiB huge, user code, per s", into @buf. */
const char *sonde_compare_words(const struct sonde_compare_row *row, char *buf, size_t size);
/* "huge pages of the process"; the name itself where there are no words. */
const char *sonde_compare_setting_words(const char *name);
/* "only where advised" for 3 of run.thp_disable. */
const char *sonde_compare_setting_value(const char *name, const char *value);

#endif
