// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/reader.h"
#include "session/session.h"
