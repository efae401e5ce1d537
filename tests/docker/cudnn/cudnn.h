// Stands in for cuDNN 8 where there is no GPU: what caffe/util/cudnn.hpp and cudnn.cpp name of it. It offers the
// algorithms that the test lists (stand_in.cpp) and computes nothing.
#pragma once
#include <cstddef>

#define CUDNN_VERSION 8906

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_SUPPORTED = 9 };
enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC };
enum cudnnMathType_t { CUDNN_FMA_MATH = 3 };
enum cudnnDataType_t { CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE };
enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW };
enum cudnnConvolutionMode_t { CUDNN_CROSS_CORRELATION };
enum cudnnNanPropagation_t { CUDNN_PROPAGATE_NAN };
enum cudnnActivationMode_t { CUDNN_ACTIVATION_RELU };
enum cudnnPoolingMode_t { CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING };

typedef struct Handle* cudnnHandle_t;
typedef struct Tensor* cudnnTensorDescriptor_t;
typedef struct Filter* cudnnFilterDescriptor_t;
typedef struct Convolution* cudnnConvolutionDescriptor_t;
typedef struct Pooling* cudnnPoolingDescriptor_t;
typedef struct Activation* cudnnActivationDescriptor_t;

// An algorithm of each pass is a type of its own, so that one can not be taken for another.
enum cudnnConvolutionFwdAlgo_t : int { CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8 };
enum cudnnConvolutionBwdFilterAlgo_t : int { CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7 };
enum cudnnConvolutionBwdDataAlgo_t : int { CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6 };

template <typename Algorithm>
struct Offer {
  Algorithm algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
};
typedef Offer<cudnnConvolutionFwdAlgo_t> cudnnConvolutionFwdAlgoPerf_t;
typedef Offer<cudnnConvolutionBwdFilterAlgo_t> cudnnConvolutionBwdFilterAlgoPerf_t;
typedef Offer<cudnnConvolutionBwdDataAlgo_t> cudnnConvolutionBwdDataAlgoPerf_t;

const char* cudnnGetErrorString(cudnnStatus_t);
size_t cudnnGetVersion();

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y, int, int*, cudnnConvolutionFwdAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
    cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t,
    size_t*);
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t w, int, int*,
    cudnnConvolutionBwdFilterAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t w,
    cudnnConvolutionBwdFilterAlgo_t, size_t*);
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t x, int, int*,
    cudnnConvolutionBwdDataAlgoPerf_t*);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t x, cudnnConvolutionBwdDataAlgo_t,
    size_t*);

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t*);
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t, cudnnDataType_t, int, int, int, int, int, int, int,
    int);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t*);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int, int, int,
    int);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t*);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t, int, int, int, int, int, int,
    cudnnConvolutionMode_t, cudnnDataType_t);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t);
cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t*);
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t, cudnnPoolingMode_t, cudnnNanPropagation_t, int, int,
    int, int, int, int);
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t*);
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t,
    double);
