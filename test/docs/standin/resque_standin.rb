# What the docs use of the gem resque, where the gem is not installed: the methods that push and read, by the
# keys of Ruby's wire, which testdata and test/interop hold. redis and redis-namespace are the real gems.
require "json"
require "redis-namespace"

module Resque
  def self.redis
    @redis ||= Redis::Namespace.new(:resque, redis: Redis.new(url: ENV.fetch("REDIS_URL")))
  end

  def self.redis=(server)
    server = Redis.new(url: server.include?("://") ? server : "redis://#{server}") if server.is_a?(String)
    @redis = Redis::Namespace.new(:resque, redis: server)
  end

  def self.queue_of(klass)
    klass.instance_variable_get(:@queue) or raise "#{klass} has no queue"
  end

  def self.enqueue(klass, *args) = enqueue_to(queue_of(klass), klass, *args)

  def self.enqueue_to(queue, klass, *args)
    push(queue, class: klass.to_s, args: args)
    true
  end

  def self.push(queue, item)
    redis.sadd("queues", queue.to_s)
    redis.rpush("queue:#{queue}", JSON.generate(item))
  end

  def self.queues = redis.smembers("queues")
  def self.size(queue) = redis.llen("queue:#{queue}")

  def self.peek(queue, start = 0, count = 1)
    items = redis.lrange("queue:#{queue}", start, start + count - 1).map { |text| JSON.parse(text) }
    count == 1 ? items.first : items
  end

  # A worker in Resque's list.
  Worker = Struct.new(:id) do
    def self.all = Resque.redis.smembers("workers").map { |id| new(id) }
    def self.working = all.select { |worker| Resque.redis.exists?("worker:#{worker.id}") }
    def job = JSON.parse(Resque.redis.get("worker:#{id}") || "{}")
    def to_s = id

    def unregister_worker
      Resque.redis.srem("workers", id)
      Resque.redis.hdel("workers:heartbeat", id)
      Resque.redis.del("worker:#{id}", "worker:#{id}:started", "stat:processed:#{id}", "stat:failed:#{id}")
    end
  end

  def self.workers = Worker.all
  def self.working = Worker.working

  # Resque's list of failures.
  module Failure
    def self.count = Resque.redis.llen("failed")

    def self.all(start = 0, count = 1)
      items = Resque.redis.lrange("failed", start, start + count - 1).map { |text| JSON.parse(text) }
      count == 1 ? items.first : items
    end

    def self.requeue(index)
      item = all(index)
      item["retried_at"] = Time.now.strftime("%Y/%m/%d %H:%M:%S")
      Resque.redis.lset("failed", index, JSON.generate(item))
      Resque.push(item["queue"], class: item["payload"]["class"], args: item["payload"]["args"])
    end

    def self.clear = Resque.redis.del("failed")
  end
end
