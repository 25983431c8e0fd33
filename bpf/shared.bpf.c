// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * No program: only the shared maps, so that they exist, with their types, before any lens. The
 * engine loads this object first and hands its maps to every other one.
 */
#include "lib/anatomy.bpf.h"
#include "lib/span.bpf.h"
#include "lib/window.bpf.h"
