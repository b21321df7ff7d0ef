# The gem resque, if it is installed; else what the docs use of it.
$LOAD_PATH.delete(__dir__)
begin
  gem "resque"
  require "resque"
  Resque.redis = ENV.fetch("REDIS_URL")
rescue Gem::LoadError
  $LOAD_PATH.unshift(__dir__)
  require "resque_standin"
end
