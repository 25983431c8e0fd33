-- SPDX-License-Identifier: GPL-2.0-or-later
-- Call stacks, since schema 3. Part of schema.sql, in a file of its own since the step from schema 2
-- runs it too.

-- A place in the code. module and function NULL: not known. An inlined function has the offset of the
-- next frame, which it was inlined into.
CREATE TABLE frame (
	id       INTEGER PRIMARY KEY,
	function INTEGER REFERENCES name (id),
	module   INTEGER REFERENCES name (id),
	file     INTEGER REFERENCES name (id),
	line     INTEGER,
	offset   INTEGER NOT NULL, -- address within the module; without a module in the process
	inlined  INTEGER NOT NULL
) STRICT;

-- id is a hash's 64 bits as a signed number. It may lack where a recording was cut short.
CREATE TABLE stack (
	id     INTEGER PRIMARY KEY,
	target INTEGER NOT NULL,
	end    INTEGER NOT NULL -- enum 'stack_end'
) STRICT;

-- depth 0 is innermost: the caller of the function that was counted.
CREATE TABLE stack_frame (
	stack INTEGER NOT NULL REFERENCES stack (id),
	depth INTEGER NOT NULL,
	frame INTEGER NOT NULL REFERENCES frame (id),
	PRIMARY KEY (stack, depth)
) STRICT, WITHOUT ROWID;

-- Cumulative since attach, a row where something changed; live_* is what of it is live, NULL where
-- blocks are not followed to their free. live_error: standard error, 0 where each block is followed.
-- Of lens 'fault' calls are page faults and bytes their nanoseconds.
CREATE TABLE stack_count (
	stack      INTEGER NOT NULL,
	lens       INTEGER NOT NULL, -- enum 'lens'
	ts_ns      INTEGER NOT NULL,
	target     INTEGER NOT NULL,
	calls      INTEGER NOT NULL,
	bytes      INTEGER NOT NULL,
	live_calls INTEGER,
	live_bytes INTEGER,
	live_error INTEGER,
	PRIMARY KEY (stack, lens, ts_ns)
) STRICT, WITHOUT ROWID;

-- The last counts of each stack, with its functions, innermost first.
CREATE VIEW call_site AS
SELECT l.name AS lens, c.target, c.calls, c.bytes, c.live_calls, c.live_bytes, c.live_error,
       e.name AS stack_end,
       (SELECT group_concat(coalesce(fn, m || '+' || printf('0x%x', offset), printf('0x%x', offset)), ';')
        FROM (SELECT n.name AS fn, m.name AS m, f.offset FROM stack_frame sf
              JOIN frame f ON f.id = sf.frame LEFT JOIN name n ON n.id = f.function
              LEFT JOIN name m ON m.id = f.module
              WHERE sf.stack = c.stack ORDER BY sf.depth)) AS functions,
       c.stack
FROM stack_count c
LEFT JOIN stack s ON s.id = c.stack
LEFT JOIN enum l ON l.kind = 'lens' AND l.value = c.lens
LEFT JOIN enum e ON e.kind = 'stack_end' AND e.value = s.end
WHERE c.ts_ns = (SELECT max(b.ts_ns) FROM stack_count b WHERE b.stack = c.stack AND b.lens = c.lens);
