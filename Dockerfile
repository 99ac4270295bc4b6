# sqlwin with Java, Kafka, lakes and PostgreSQL. .ci/packages runs the same script outside Docker.
#   docker build -t sqlwin .
#   docker run --rm -v "$PWD:/data" sqlwin run query.sql
FROM python:3.12-slim
COPY . /src
RUN /src/.ci/install /src --no-cache-dir && rm -r /src
# An engine in the background would end with the container
ENV SQLWIN_ENGINE=off
RUN useradd --create-home sqlwin
USER sqlwin
WORKDIR /data
ENTRYPOINT ["sqlwin"]
