/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One probe a feature: 0 the kernel has it and we may use it, or -errno. Leaves nothing behind. */
#ifndef SONDE_ATTACH_FEATURE_PROBE_H
#define SONDE_ATTACH_FEATURE_PROBE_H

#include "attach/feature.h"

#define SONDE_FEATURE_PROBE(sym, name, since, what, remedy) int sonde_probe_##sym(void);
SONDE_FEATURES(SONDE_FEATURE_PROBE)
#undef SONDE_FEATURE_PROBE

#endif
