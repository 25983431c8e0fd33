// SPDX-License-Identifier: GPL-2.0-or-later
#include <elfutils/libdwfl.h>
#include <Zydis/Zydis.h>
