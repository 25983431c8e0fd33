#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Clients of tests/e2e/protocols.bats. Each sends a known number of requests, says how many, and fails
where an answer is not what was asked for. protocols.py CASE PORT [ARGUMENT]"""
import http.client
import struct
import sys
import threading
import time

PORT = int(sys.argv[2])


def connect(**more):
    import pymysql

    return pymysql.connect(host="127.0.0.1", port=PORT, user="root", autocommit=None,
                           ssl_disabled=True, **more)


def ask(con, sql):
    cur = con.cursor()
    cur.execute(sql)
    return cur.fetchall()


def prepared(n):
    """PREPARE, n times EXECUTE with a number, CLOSE: 2 + n requests."""
    con = connect()
    con._execute_command(0x16, "SELECT ? + 1 AS prepared")
    ok = con._read_packet().get_all_data()
    statement, columns, params = struct.unpack("<IHH", ok[1:9])
    for _ in range(params + 1 + columns + 1):
        con._read_packet()
    for i in range(n):
        body = struct.pack("<IBIBBHq", statement, 0, 1, 0, 1, 8, i)
        con._execute_command(0x17, body)
        while not con._read_packet().is_eof_packet():
            pass
        con._read_packet()
        con._read_packet()
    con._execute_command(0x19, struct.pack("<I", statement))
    con._next_seq_id = 0
    assert ask(con, "SELECT 'after'") == (("after",),)
    con.close()


def multi(n):
    """n requests of three statements each."""
    from pymysql.constants import CLIENT

    con = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    for i in range(n):
        cur = con.cursor()
        cur.execute("SELECT 1; SELECT 2; SELECT 'multi'")
        cur.nextset()
        cur.nextset()
        assert cur.fetchall() == (("multi",),)
    con.close()


def pipelined(n):
    """n times four requests in one send."""
    con = connect()
    for _ in range(n):
        sql = [b"\x03SELECT 'piped', %d" % k for k in range(4)]
        con._sock.sendall(b"".join(struct.pack("<I", len(s)) + s for s in sql))
        for _ in sql:
            con._next_seq_id = 1
            con._read_query_result()
    con._next_seq_id = 0
    con.close()


def big(n):
    """Requests, and answers, of more than 16 MiB."""
    con = connect()
    for _ in range(n):
        rows = ask(con, "SELECT LENGTH('%s') AS big" % ("x" * (17 << 20)))
        assert rows == ((17 << 20,),)
    assert len(ask(con, "SELECT REPEAT('y', %d) AS long_answer" % (17 << 20))[0][0]) == 17 << 20
    con.close()


def many(n):
    """n connections at once, ten requests each; then as many once more."""

    def one():
        con = connect()
        for i in range(10):
            assert ask(con, "SELECT 'many', %d" % i)[0][1] == i
        con.close()

    for _ in range(2):
        threads = [threading.Thread(target=one) for _ in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def sleep(n):
    ask(connect(), "SELECT SLEEP(%d) AS asleep" % n)


def web(n):
    """n times five requests on one connection, each answered as it must be; longest times on stdout."""
    con = http.client.HTTPConnection("127.0.0.1", PORT)
    for i in range(n):
        for method, path, body, code in (("GET", "/small", None, 200), ("GET", "/big", None, 200),
                                         ("HEAD", "/big", None, 200), ("GET", "/none/%d" % i, None, 404),
                                         ("POST", "/sql", "query=SELECT+%d+FROM+rt" % i, 200)):
            begin = time.monotonic_ns()
            if body:  # with its head: nginx answers this before it reads more
                con.sock.sendall(("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                                  (path, len(body), body)).encode())
                answer = http.client.HTTPResponse(con.sock, method=method)
                answer.begin()
            else:
                con.request(method, path)
                answer = con.getresponse()
            answer.read()
            print(method, path, time.monotonic_ns() - begin)
            assert answer.status == code, (path, answer.status)


def chunked(n):
    """Bodies in chunks both ways, a 204, and an answer that comes in parts."""
    con = http.client.HTTPConnection("127.0.0.1", PORT)
    for i in range(n):
        con.request("POST", "/json/search", iter([b'{"index":"docs",', b'"n":%d}' % i]),
                    encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        assert len(con.getresponse().read()) == 30000
        con.request("DELETE", "/item/%d" % i)
        answer = con.getresponse()
        answer.read()
        assert answer.status == 204


def early(n):
    """A connection that was made before: one request, a line on stdin, n more."""
    con = http.client.HTTPConnection("127.0.0.1", PORT)
    for i in range(n + 1):
        con.request("GET", "/small")
        con.getresponse().read()
        if not i:
            print("ready", flush=True)
            sys.stdin.readline()


globals()[sys.argv[1]](int(sys.argv[3]))
