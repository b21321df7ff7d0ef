"""A small peer of the wire of delayed, for the tests: it enqueues tasks and works them.

    peer.py enqueue URL QUEUE             each line of stdin is a task: {"go": path, "args": …} or
                                          {"py": "module:function", "args": […], "kwargs": {…}}
    peer.py work URL QUEUE LIST           works tasks of Python and of Go and notes each, as JSON, in LIST
    peer.py hold URL QUEUE LIST           takes one task, notes its worker's id, and waits to be killed
"""

import binascii
import json
import os
import sys
import threading
import time

import msgpack
import redis

TAKE = """
local task = redis.call('LPOP', KEYS[1])
if task then redis.call('HSET', KEYS[2], ARGV[1], task) end
return task
"""


def pack(task):
    if "go" in task:
        if "args" not in task:
            return msgpack.packb(task["go"])
        return msgpack.packb((task["go"], msgpack.packb(task["args"])))
    parts = [task["py"], task.get("args", []), task.get("kwargs", {})]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return msgpack.packb(parts)


def enqueue(conn, queue):
    for line in sys.stdin:
        with conn.pipeline() as pipe:
            pipe.rpush(queue, pack(json.loads(line)))
            pipe.rpush(queue + "_noti", "1")
            pipe.execute()


def call(name, args=(), kwargs=None):
    """What a worker of Python does with a task: the stars refuse what is no list and no dict."""

    def function(*args, **kwargs):
        return [name, list(args), kwargs]

    return function(*args, **({} if kwargs is None else kwargs))


def run(data):
    task = msgpack.unpackb(data)
    if isinstance(task, str):
        return [task, None]
    if isinstance(task[1] if len(task) > 1 else None, bytes):
        return [task[0], msgpack.unpackb(task[1], strict_map_key=False)]
    return call(*task)


def work(conn, queue, notes, hold):
    worker = binascii.hexlify(os.urandom(16)).decode()
    alive = threading.Event()

    def keep_alive():
        own = redis.Redis.from_url(sys.argv[2])
        while True:
            own.setex(worker, 60, 1)
            alive.set()
            time.sleep(15)

    threading.Thread(target=keep_alive, daemon=True).start()
    alive.wait()
    take = conn.register_script(TAKE)
    while True:
        if not conn.blpop(queue + "_noti", 1):
            continue
        data = take(keys=(queue, queue + "_processing"), args=(worker,))
        if not data:
            continue
        if hold:
            conn.rpush(notes, worker)
            time.sleep(3600)
        try:
            conn.rpush(notes, json.dumps(run(data)))
        except Exception as error:
            conn.rpush(notes, json.dumps(["error", str(error)]))
        conn.hdel(queue + "_processing", worker)


def main():
    conn = redis.Redis.from_url(sys.argv[2])
    if sys.argv[1] == "enqueue":
        enqueue(conn, sys.argv[3])
    else:
        work(conn, sys.argv[3], sys.argv[4], sys.argv[1] == "hold")


main()
