// SPDX-License-Identifier: GPL-2.0-or-later
#include <sqlite3.h>
