<?php
// What the docs use of php-resque, where it is not installed; redis is the real extension.
class Resque
{
    private static $redis;

    public static function setBackend($server)
    {
        [$host, $port] = explode(':', $server);
        self::$redis = new Redis();
        self::$redis->connect($host, (int) $port);
    }

    public static function enqueue($queue, $class, $args = null)
    {
        $id = bin2hex(random_bytes(16));
        self::$redis->sAdd('resque:queues', $queue);
        self::$redis->rPush("resque:queue:$queue", json_encode(['class' => $class, 'args' => [$args], 'id' => $id, 'queue_time' => microtime(true)]));
        return $id;
    }
}
