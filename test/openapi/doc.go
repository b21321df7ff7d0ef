// Package openapi holds the HTTP API against its OpenAPI document: it makes every call, and checks each request and each answer.
package openapi
