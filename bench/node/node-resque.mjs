// node-resque with the benchmark's handlers: a Worker runs one job at a time, so
// there are as many as were asked for. They share a connection that sends what
// they ask for in the same moment together, which was the fastest of the ways it
// can be set up.
import { createRequire } from 'node:module'
import { hostname } from 'node:os'
import Redis from 'ioredis'
import { config, connection, handlers, main } from './probe.mjs'

const { Queue, Scheduler, Worker } = createRequire(import.meta.url)('node-resque')
const redis = new Redis({ ...connection, enableAutoPipelining: true })
redis.setMaxListeners(0)

const jobs = {}
for (const [name, perform] of Object.entries(handlers)) jobs[name] = { perform }

main(
  async () => {
    for (let i = 0; i < config.workers; i++) {
      const worker = new Worker(
        {
          connection: { redis, namespace: 'resque' },
          queues: config.order === 'all' ? ['*'] : config.queues,
          name: `${hostname()}:${process.pid}+${i}`,
        },
        jobs,
      )
      worker.on('error', (error) => console.error(error))
      await worker.connect()
      worker.start()
    }
    if (config.delayed) {
      const scheduler = new Scheduler({ connection: { redis, namespace: 'resque' } })
      scheduler.on('error', (error) => console.error(error))
      await scheduler.connect()
      scheduler.start()
    }
  },
  async () => {
    const queue = new Queue({ connection: { redis, namespace: 'resque' } }, jobs)
    queue.on('error', (error) => console.error(error))
    await queue.connect()
    return {
      push: (job) =>
        job.at
          ? queue.enqueueAt(job.at, job.queue, job.class, job.args)
          : queue.enqueue(job.queue, job.class, job.args),
    }
  },
)
