-- Has the document of a job that made room for another say that it was cancelled, if it waited.
--
-- keys  document, progress, list of log lines
--@gone
function verbs.gone(job, keys) gone(job.now, keys) end
