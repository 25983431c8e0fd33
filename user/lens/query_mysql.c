// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of MySQL's commands, and where the statement begins in a request. */
#include "core/mem.h"
#include "lens/query.h"

static const char *const names[] = {
	[0x01] = "quit",
	[0x02] = "init_db",
	[0x03] = "query",
	[0x04] = "field_list",
	[0x05] = "create_db",
	[0x06] = "drop_db",
	[0x07] = "refresh",
	[0x08] = "shutdown",
	[0x09] = "statistics",
	[0x0a] = "process_info",
	[0x0b] = "connect",
	[0x0c] = "process_kill",
	[0x0d] = "debug",
	[0x0e] = "ping",
	[0x0f] = "time",
	[0x10] = "delayed_insert",
	[0x11] = "change_user",
	[0x12] = "binlog_dump",
	[0x13] = "table_dump",
	[0x14] = "connect_out",
	[0x15] = "register_slave",
	[0x16] = "prepare",
	[0x17] = "execute",
	[0x18] = "send_long_data",
	[0x19] = "stmt_close",
	[0x1a] = "stmt_reset",
	[0x1b] = "set_option",
	[0x1c] = "fetch",
	[0x1d] = "daemon",
	[0x1e] = "binlog_dump_gtid",
	[0x1f] = "reset_connection",
};

const char *sonde_mysql_command_name(unsigned command)
{
	return command < SONDE_ARRAY_SIZE(names) && names[command] ? names[command] : "unknown";
}

const char *sonde_mysql_statement(const char *body, size_t *len)
{
	/* CLIENT_QUERY_ATTRIBUTES: number of attributes (0), number of sets (1). */
	if (*len >= 2 && body[0] == 0 && body[1] == 1) {
		*len -= 2;
		return body + 2;
	}
	return body;
}
